-- channels message question
redis.call('PUBLISH', ARGV[2] .. 'told', ARGV[3])
if ARGV[4] == '' then return { 'ok', 0 } end
-- Who listens is asked behind the message, and so answers once it has acted on it.
return { 'ok', redis.call('PUBLISH', ARGV[2] .. 'asked', ARGV[4]) }

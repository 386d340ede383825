-- message question
redis.call('PUBLISH', root .. 'told', ARGV[2])
if ARGV[3] == '' then return { 'ok', 0 } end
-- Who listens is asked behind the message, and so answers once it has acted on it.
return { 'ok', redis.call('PUBLISH', root .. 'asked', ARGV[3]) }

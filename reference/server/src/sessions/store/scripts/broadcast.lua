-- channels message question
redis.call('PUBLISH', ARGV[2] .. 'told', ARGV[3])
if ARGV[4] == '' then return { 'ok', 0 } end
-- Listeners receive the question after the message, so they answer it once they have acted on the message.
return { 'ok', redis.call('PUBLISH', ARGV[2] .. 'asked', ARGV[4]) }

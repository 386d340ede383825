-- message
redis.call('PUBLISH', root .. 'told', ARGV[2])
return { 'ok' }

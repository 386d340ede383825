-- channels asker question node
redis.call('PUBLISH', ARGV[2] .. 'acted:' .. ARGV[3], ARGV[4] .. ' ' .. ARGV[5])
return { 'ok' }

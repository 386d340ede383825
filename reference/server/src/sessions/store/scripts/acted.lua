-- asker question node
redis.call('PUBLISH', root .. 'acted:' .. ARGV[2], ARGV[3] .. ' ' .. ARGV[4])
return { 'ok' }

-- owner
for _, key in ipairs(redis.call('SMEMBERS', root .. 'owner:' .. ARGV[2])) do shut(key) end
return { 'ok' }

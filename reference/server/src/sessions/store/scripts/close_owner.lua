-- owner
for _, key in ipairs(redis.call('SMEMBERS', root .. 'owner:' .. ARGV[2])) do close_session(key) end
return { 'ok' }

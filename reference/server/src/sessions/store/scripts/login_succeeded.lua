-- source
local key = root .. 'login:' .. ARGV[2]
if (tonumber(redis.call('HGET', key, 'until') or 0) or 0) <= now then
  redis.call('DEL', key)
  redis.call('ZREM', root .. 'logins', ARGV[2])
end
return { 'ok' }

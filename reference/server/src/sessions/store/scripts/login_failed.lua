-- source window block failures-max sources-max
local source, window, block = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local key, index = root .. 'login:' .. source, root .. 'logins'
local h = redis.call('HMGET', key, 'failures', 'since', 'until')
local failures, since, ends = tonumber(h[1] or 0) or 0, tonumber(h[2] or now) or now, tonumber(h[3] or 0) or 0
if ends > now then return { 'ok', 'blocked', integer(ends - now) } end
if now - since >= window then
  failures = 0
  since = now
end
failures = failures + 1
local said = 'counted'
if failures >= tonumber(ARGV[5]) then
  said = 'blocks'
  ends = now + block
end
redis.call('HSET', key, 'failures', integer(failures), 'since', integer(since), 'until', integer(ends))
local left = math.min(math.max(since + window, ends) - now, 4000000000000000)
redis.call('PEXPIRE', key, integer(math.floor(left / 1000) + 1))
redis.call('ZADD', index, integer(since), source)
redis.call('ZREMRANGEBYSCORE', index, '-inf', integer(now - window - block))
local extra = redis.call('ZCARD', index) - tonumber(ARGV[6])
if extra > 0 then
  local stalest = redis.call('ZPOPMIN', index, extra)
  for at = 1, #stalest, 2 do redis.call('DEL', root .. 'login:' .. stalest[at]) end
end
return { 'ok', said }

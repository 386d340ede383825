-- key owner ttl idle count-max per-owner-max stamp head body
local key, owner, ttl, idle = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
-- On a retry, because the first response was lost, the session already exists.
local f, word = load(key)
if word then return { word } end
if not f then
  sweep()
  if redis.call('ZCARD', root .. 'sessions') >= tonumber(ARGV[6]) then return { 'full' } end
  if redis.call('SCARD', root .. 'owner:' .. owner) >= tonumber(ARGV[7]) then return { 'owner_full' } end
  -- Larger numbers would lose precision.
  local expires = math.min(now + ttl, 9000000000000000)
  f = { created = now, expires = expires, used = now, idle = math.min(idle, 4000000000000000), ['until'] = 0 }
  put(key, f, nil, 'owner', owner, 'version', 0, 'created', integer(now), 'expires', integer(expires),
    'used', integer(now), 'idle', integer(f.idle), 'fence', 0,
    'committed', 0, 'holder', '', 'until', 0, 'stamp', ARGV[8], 'head', ARGV[9], 'body', ARGV[10])
  redis.call('HSET', root .. 'owners', key, owner)
  redis.call('SADD', root .. 'owner:' .. owner, key)
  -- Redis removes the session itself if no server is left to sweep.
  redis.call('PEXPIREAT', session_key(key), integer(math.floor(expires / 1000) + 60000))
end
return { 'ok', integer(f.created), integer(f.expires), integer(f.used), integer(now) }

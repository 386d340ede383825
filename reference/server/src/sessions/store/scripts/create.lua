-- key owner ttl idle count-max per-owner-max stamp head body
local key, owner, ttl, idle = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
-- Asked again: the first answer was lost.
local f, word = facts(key)
if word then return { word } end
if not f then
  sweep()
  if redis.call('ZCARD', root .. 'sessions') >= tonumber(ARGV[6]) then return { 'full' } end
  if redis.call('SCARD', root .. 'owner:' .. owner) >= tonumber(ARGV[7]) then return { 'owner_full' } end
  -- No life is longer than a number can say.
  local expires = math.min(now + ttl, 9000000000000000)
  f = { created = now, expires = expires, used = now, idle = math.min(idle, 4000000000000000), ['until'] = 0 }
  put(key, f, nil, 'owner', owner, 'version', 0, 'created', num(now), 'expires', num(expires), 'used', num(now), 'idle', num(f.idle), 'fence', 0,
    'committed', 0, 'holder', '', 'until', 0, 'stamp', ARGV[8], 'head', ARGV[9], 'body', ARGV[10])
  redis.call('HSET', root .. 'owners', key, owner)
  redis.call('SADD', root .. 'owner:' .. owner, key)
  -- Nothing stays for ever where no server is left to sweep.
  redis.call('PEXPIREAT', at(key), num(math.floor(expires / 1000) + 60000))
end
return { 'ok', num(f.created), num(f.expires), num(f.used), num(now) }

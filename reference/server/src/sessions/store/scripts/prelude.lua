-- KEYS[1] is the root of all keys, ARGV[1] how many closed sessions are remembered.
local root = KEYS[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- Lua writes large numbers with an exponent; these stay below 2^53.
local function num(n) return string.format('%.0f', n) end
local function at(key) return root .. 'session:' .. key end

-- Ends a session, whoever uses it; with one of the protocol, what its client kept in sessions of programs.
local function shut(key)
  local owner = redis.call('HGET', root .. 'owners', key)
  redis.call('DEL', at(key))
  redis.call('HDEL', root .. 'owners', key)
  redis.call('ZREM', root .. 'sessions', key)
  if owner then redis.call('SREM', root .. 'owner:' .. owner, key) end
  redis.call('ZADD', root .. 'closed', num(now), key)
  redis.call('ZREMRANGEBYRANK', root .. 'closed', 0, -1 - tonumber(ARGV[1]))
  local programs, is_protocol = string.gsub(root, 'protocol:$', 'programs:')
  if is_protocol == 1 then
    local protocol = root
    root = programs
    for _, own in ipairs(redis.call('SMEMBERS', root .. 'owner:' .. key)) do shut(own) end
    root = protocol
  end
end

-- What is judged by, as numbers: nothing where there is no session, and the word that refuses where they are damaged.
local function facts(key)
  local h = redis.pcall('HMGET', at(key), 'owner', 'version', 'created', 'expires', 'used', 'idle', 'fence', 'committed', 'holder', 'until', 'stamp')
  if h.err then return nil, 'unreadable' end
  for place = 1, 11 do
    local text = place == 1 or place == 9 or place == 11
    -- Nothing larger is ever written; Lua would also read 'nan', and beyond 2^53 one more is the same number.
    local right = h[place] and (text or (#h[place] <= 16 and string.match(h[place], '^%d+$') and tonumber(h[place]) < 9007199254740991))
    if not right then
      if redis.call('EXISTS', at(key)) == 0 then return nil end
      return nil, 'unreadable'
    end
  end
  return { owner = h[1], version = tonumber(h[2]), created = tonumber(h[3]), expires = tonumber(h[4]), used = tonumber(h[5]),
    idle = tonumber(h[6]), fence = tonumber(h[7]), committed = tonumber(h[8]), holder = h[9], ['until'] = tonumber(h[10]), stamp = h[11] }
end

local function over_at(f)
  return math.min(f.expires, math.max(f.used + f.idle, f['until']))
end

-- Writes use and lease back, and when the session is over by them.
local function put(key, f)
  redis.call('HSET', at(key), 'used', num(f.used), 'fence', num(f.fence), 'holder', f.holder, 'until', num(f['until']))
  redis.call('ZADD', root .. 'sessions', num(over_at(f)), key)
end

-- Closes whatever is over.
local function sweep()
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', root .. 'sessions', '-inf', num(now))) do shut(key) end
end

-- The session that an owner may use, else the word that refuses.
local function find(key, owner)
  local f, word = facts(key)
  if word then return nil, word end
  if not f then
    if redis.call('ZSCORE', root .. 'closed', key) then return nil, 'closed' end
    -- One that went with its expiry, before anybody closed it.
    if redis.call('ZSCORE', root .. 'sessions', key) then shut(key) return nil, 'closed' end
    return nil, 'not_found'
  end
  if over_at(f) <= now then shut(key) return nil, 'closed' end
  if f.owner ~= owner then return nil, 'foreign' end
  return f
end

-- What a record says of times, version and use.
local function told(f)
  local running = 0
  if f['until'] > now then running = 1 end
  return f.owner, num(f.created), num(f.expires), num(f.used), num(now), num(f.version), f.stamp, running
end

-- What lists show, and the rest unless the asker has it. What is missing is nothing that anybody sealed.
local function head(key) return redis.call('HGET', at(key), 'head') or '' end
local function body(key, f, known)
  if known == f.stamp then return false end
  return redis.call('HGET', at(key), 'body') or ''
end

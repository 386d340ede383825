-- KEYS[1] is the prefix of all keys, ARGV[1] the number of closed sessions to remember.
local root = KEYS[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- Lua writes large numbers with an exponent; these are integers below 2^53.
local format = string.format
local function integer(n) return format('%d', n) end
local function session_key(key) return root .. 'session:' .. key end

-- Closes a session, even while it is in use; with a protocol session, also its client's program sessions.
local function close_session(key)
  local owner = redis.call('HGET', root .. 'owners', key)
  redis.call('DEL', session_key(key))
  redis.call('HDEL', root .. 'owners', key)
  redis.call('ZREM', root .. 'sessions', key)
  if owner then redis.call('SREM', root .. 'owner:' .. owner, key) end
  redis.call('ZADD', root .. 'closed', integer(now), key)
  redis.call('ZREMRANGEBYRANK', root .. 'closed', 0, -1 - tonumber(ARGV[1]))
  local programs, is_protocol = string.gsub(root, 'protocol:$', 'programs:')
  if is_protocol == 1 then
    local protocol = root
    root = programs
    for _, own in ipairs(redis.call('SMEMBERS', root .. 'owner:' .. key)) do close_session(own) end
    root = protocol
  end
end

-- The fields that decisions depend on, as numbers, and those that lists show. Returns nil if there is no session, and nil and an error word if the
-- fields are damaged.
local function load(key)
  local h = redis.pcall('HMGET', session_key(key), 'owner', 'version', 'created', 'expires', 'used', 'idle', 'fence', 'committed',
      'until', 'holder', 'stamp', 'head')
  if h.err then return nil, 'unreadable' end
  local whole = h[1] and h[2] and h[3] and h[4] and h[5] and h[6] and h[7] and h[8] and h[9] and h[10] and h[11]
  -- A server reads these as text, and would take no answer that contains other bytes, not even about other sessions.
  if whole and not string.find(key .. h[1] .. h[11], '^[!-~]*$') then return nil, 'unreadable' end
  -- Lua would also read 'nan' and '1e3'.
  if whole and string.find(h[2] .. h[3] .. h[4] .. h[5] .. h[6] .. h[7] .. h[8] .. h[9], '^%d*$') then
    local version, created, expires, used = tonumber(h[2]), tonumber(h[3]), tonumber(h[4]), tonumber(h[5])
    local idle, fence, committed, ends = tonumber(h[6]), tonumber(h[7]), tonumber(h[8]), tonumber(h[9])
    -- Larger numbers are never written: beyond 2^53, n + 1 may equal n.
    if version and created and expires and used and idle and fence and committed and ends
      and math.max(version, created, expires, used, idle, fence, committed, ends) < 9007199254740991 then
      return { owner = h[1], version = version, created = created, expires = expires, used = used, idle = idle, fence = fence, committed = committed,
        ['until'] = ends, holder = h[10], stamp = h[11], head = h[12] or '', raw = h }
    end
  end
  if redis.call('EXISTS', session_key(key)) == 0 then return nil end
  return nil, 'unreadable'
end

-- Whether a lease is the latest one. The fence alone does not tell: a replica that took over before it received the lease may assign the same
-- number again.
local function is_held_by(f, fence, holder)
  return f.fence == fence and f.holder == holder
end

-- The time at which the session is over.
local function expires_at(f)
  return math.min(f.expires, math.max(f.used + f.idle, f['until']))
end

-- Writes fields, and updates the index if they change the time at which the session is over.
local function put(key, f, before, ...)
  redis.call('HSET', session_key(key), ...)
  if expires_at(f) ~= before then redis.call('ZADD', root .. 'sessions', integer(expires_at(f)), key) end
end

-- Records a use.
local function touch(key, f)
  local before = expires_at(f)
  f.used = now
  put(key, f, before, 'used', integer(now))
end

-- Closes all expired sessions.
local function sweep()
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', root .. 'sessions', '-inf', integer(now))) do close_session(key) end
end

-- The session, if the owner may use it, else nil and an error word.
local function find(key, owner)
  local f, word = load(key)
  if word then return nil, word end
  if not f then
    if redis.call('ZSCORE', root .. 'closed', key) then return nil, 'closed' end
    -- Redis expired the key before the session was closed.
    if redis.call('ZSCORE', root .. 'sessions', key) then close_session(key) return nil, 'closed' end
    return nil, 'not_found'
  end
  if expires_at(f) <= now then close_session(key) return nil, 'closed' end
  if f.owner ~= owner then return nil, 'foreign' end
  return f
end

-- The fields of a record, as they were before this script changed anything.
local function record_fields(f)
  local running = 0
  if f['until'] > now then running = 1 end
  return f.owner, f.raw[3], f.raw[4], f.raw[5], integer(now), f.raw[2], f.stamp, running, f.head
end

-- The body, unless the caller knows this version. A missing body is returned as the empty string, which no seal opens.
local function body(key, f, known)
  if known == f.stamp then return false end
  return redis.call('HGET', session_key(key), 'body') or ''
end

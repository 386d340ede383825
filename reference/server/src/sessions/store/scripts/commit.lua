-- key fence version stamp head body careless
local key, fence, version = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local f, word = load(key)
if not f then return { word or 'closed' } end
-- A retry: the first response was lost.
if f.committed == fence and f.stamp == ARGV[5] then return { 'ok' } end
if f.expires <= now then close_session(key) return { 'closed' } end
local holds = is_held_by(f, fence, ARGV[5]) and f['until'] > now
if (not holds or f.version ~= version) and ARGV[8] ~= '1' then return { 'lost' } end
local before = expires_at(f)
f.used = now
f['until'] = 0
put(key, f, before, 'used', integer(now), 'until', '0', 'version', integer(version + 1),
  'committed', integer(fence), 'stamp', ARGV[5], 'head', ARGV[6],
  'body', ARGV[7])
return { 'ok' }

-- key owner known holder term protocol-owner
local key = ARGV[2]
local function lease()
  local f, word = find(key, ARGV[3])
  if not f then return { word } end
  local owner, created, expires, used, at_now, version, stamp, _, head = record_fields(f)
  if f['until'] > now then
    -- A retry by the same holder: the first response was lost.
    if f.holder ~= ARGV[5] then return { 'busy' } end
  else
    local before = expires_at(f)
    f.fence = f.fence + 1
    f['until'] = now + tonumber(ARGV[6])
    put(key, f, before, 'fence', integer(f.fence), 'holder', ARGV[5], 'until', integer(f['until']))
  end
  return { 'ok', owner, created, expires, used, at_now, version, stamp, 0, head, body(key, f, ARGV[4]), integer(f.fence) }
end
if ARGV[7] == '' then return lease() end
-- The owner is the key of a protocol session, which must exist; this counts as a use of it.
local programs = root
root = string.gsub(root, 'programs:$', 'protocol:')
local p, word = find(ARGV[3], ARGV[7])
if not p then return { word } end
local answer = { 'ok', record_fields(p) }
touch(ARGV[3], p)
root = programs
table.insert(answer, lease())
return answer

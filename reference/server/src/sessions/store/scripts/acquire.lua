-- key owner known holder term protocol-owner
local key, answer = ARGV[2], {}
if ARGV[7] ~= '' then
  -- The owner is the key of a session of the protocol, which has to be there and is used by this.
  local programs = root
  root = string.gsub(root, 'programs:$', 'protocol:')
  local p, word = find(ARGV[3], ARGV[7])
  if not p then return { word } end
  p.used = now
  put(ARGV[3], p)
  answer = { 'ok', told(p) }
  table.insert(answer, head(ARGV[3]))
  root = programs
end
local function refused(word)
  table.insert(answer, word)
  return answer
end
local f, word = find(key, ARGV[3])
if not f then return refused(word) end
if f['until'] > now then
  -- The same holder asks again: the first answer was lost.
  if f.holder ~= ARGV[5] then return refused('busy') end
else
  f.fence = f.fence + 1
  f.holder = ARGV[5]
  f['until'] = now + tonumber(ARGV[6])
  put(key, f)
end
local owner, created, expires, used, at_now, version, stamp = told(f)
for _, part in ipairs({ 'ok', owner, created, expires, used, at_now, version, stamp, 0, head(key), body(key, f, ARGV[4]), num(f.fence) }) do
  table.insert(answer, part)
end
return answer

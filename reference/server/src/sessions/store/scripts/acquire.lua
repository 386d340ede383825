-- key owner known holder term
local key = ARGV[2]
local f, word = find(key, ARGV[3])
if not f then return { word } end
if f['until'] > now then
  -- The same holder asks again: the first answer was lost.
  if f.holder ~= ARGV[5] then return { 'busy' } end
else
  f.fence = f.fence + 1
  f.holder = ARGV[5]
  f['until'] = now + tonumber(ARGV[6])
  put(key, f)
end
local owner, created, expires, used, at_now, version, stamp = told(f)
return { 'ok', owner, created, expires, used, at_now, version, stamp, 0, head(key), body(key, f, ARGV[4]), num(f.fence) }

-- key owner known
local f, word = find(ARGV[2], ARGV[3])
if not f then return { word } end
local owner, created, expires, used, at_now, version, stamp, running = told(f)
f.used = now
put(ARGV[2], f)
return { 'ok', owner, created, expires, used, at_now, version, stamp, running, head(ARGV[2]), body(ARGV[2], f, ARGV[4]) }

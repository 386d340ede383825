-- key owner
local f, word = find(ARGV[2], ARGV[3])
if not f then return { word } end
close_session(ARGV[2])
return { 'ok' }

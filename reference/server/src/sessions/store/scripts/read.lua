-- key owner known
local f, word = find(ARGV[2], ARGV[3])
if not f then return { word } end
local answer = { 'ok', record_fields(f) }
table.insert(answer, body(ARGV[2], f, ARGV[4]))
touch(ARGV[2], f)
return answer

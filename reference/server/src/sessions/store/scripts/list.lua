-- owner; empty for all
sweep()
local keys
if ARGV[2] == '' then keys = redis.call('ZRANGE', root .. 'sessions', 0, -1)
else keys = redis.call('SMEMBERS', root .. 'owner:' .. ARGV[2]) end
local answer, count = { 'ok', 0 }, 0
for _, key in ipairs(keys) do
  local f = load(key)
  -- The owner's list is not trusted: the session decides.
  if f and (ARGV[2] == '' or f.owner == ARGV[2]) then
    count = count + 1
    table.insert(answer, key)
    for _, part in ipairs({ record_fields(f) }) do table.insert(answer, part) end
  end
end
answer[2] = count
return answer

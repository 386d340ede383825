-- fresh replaced
local mark = redis.call('GET', root .. 'mark')
if not mark or mark == ARGV[3] then
  mark = ARGV[2]
  redis.call('SET', root .. 'mark', mark)
end
return { 'ok', mark }

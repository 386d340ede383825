-- key fence
local f = facts(ARGV[2])
if f and f.fence == tonumber(ARGV[3]) and f['until'] > 0 then
  local before = over_at(f)
  f['until'] = 0
  f.used = now
  put(ARGV[2], f, before, 'until', '0', 'used', num(now))
end
return { 'ok' }

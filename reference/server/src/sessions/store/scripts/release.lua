-- key fence holder
local f = load(ARGV[2])
if f and is_held_by(f, tonumber(ARGV[3]), ARGV[4]) and f['until'] > 0 then
  local before = expires_at(f)
  f['until'] = 0
  f.used = now
  put(ARGV[2], f, before, 'until', '0', 'used', integer(now))
end
return { 'ok' }

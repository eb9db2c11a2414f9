-- Ends a pause: the keys that waited for its end join the backlog, in the order in which they came. A call moves a part of
-- them. While there are more, the end of the pause stays due, so that the poller goes on if the caller does not.
--
-- ARGV[1] scope
-- ARGV[2] '' always; else only if the pause ends at this time, as it was read
-- ARGV[3] how many keys to move at most
--
-- Answer: {how many keys wait still, 1 if there was such a pause, else 0}; {0, 0} when the pause ends at another time.

local scope = ARGV[1]
local pause_ends, backlog = KEYS[1] .. ':pause-ends', KEYS[1] .. ':backlog'
if ARGV[2] ~= '' then
  local ends = redis.call('ZSCORE', pause_ends, scope)
  if not ends or tonumber(ends) ~= tonumber(ARGV[2]) then return { 0, 0 } end
end
local was_paused = redis.call('HDEL', KEYS[1] .. ':pauses', scope)
local key = string.match(scope, '^object/(.*)') or string.match(scope, '^key/(.*)')
local paused = KEYS[1] .. ':paused:' .. (key and string.match(scope, '^%a+') or scope)
local moved, left
if key then
  local since = redis.call('ZSCORE', paused, key)
  moved, left = since and { key, since } or {}, 0
else
  moved = redis.call('ZRANGE', paused, 0, tonumber(ARGV[3]) - 1, 'WITHSCORES')
  left = redis.call('ZCARD', paused) - #moved / 2
end
-- While keys are left, the end stays in the past, so that it stays due. A pause that is set anew overwrites it.
if left == 0 then
  redis.call('ZREM', pause_ends, scope)
else
  redis.call('ZADD', pause_ends, 'LT', 0, scope)
end
for at = 1, #moved, 2 do redis.call('ZADD', backlog, 'LT', moved[at + 1], moved[at]) end
if key then
  redis.call('ZREM', paused, key)
elseif #moved > 0 then
  redis.call('ZREMRANGEBYRANK', paused, 0, #moved / 2 - 1)
end
return { left, was_paused }

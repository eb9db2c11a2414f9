-- Ends a pause: the keys that waited for its end join the backlog, in the order in which they came. A call moves a part of
-- them. While there are more, the end of the pause stays due, so that the poller goes on if the caller does not.
--
-- ARGV[1] scope
-- ARGV[2] '' always; else only if the pause ends at this time, as it was read
-- ARGV[3] how many keys to move at most
--
-- Answer: how many keys wait still; 0 when the pause ends at another time.

local pause_ends, paused = KEYS[1] .. ':pause-ends', KEYS[1] .. ':paused:' .. ARGV[1]
local backlog = KEYS[1] .. ':backlog'
if ARGV[2] ~= '' then
  local ends = redis.call('ZSCORE', pause_ends, ARGV[1])
  if not ends or tonumber(ends) ~= tonumber(ARGV[2]) then return 0 end
end
local moved = redis.call('ZRANGE', paused, 0, tonumber(ARGV[3]) - 1, 'WITHSCORES')
local left = redis.call('ZCARD', paused) - #moved / 2
redis.call('HDEL', KEYS[1] .. ':pauses', ARGV[1])
-- While keys are left, the end stays in the past, so that it stays due. A pause that is set anew overwrites it.
if left == 0 then
  redis.call('ZREM', pause_ends, ARGV[1])
else
  redis.call('ZADD', pause_ends, 'LT', 0, ARGV[1])
end
for at = 1, #moved, 2 do redis.call('ZADD', backlog, 'LT', moved[at + 1], moved[at]) end
if #moved > 0 then redis.call('ZREMRANGEBYRANK', paused, 0, #moved / 2 - 1) end
return left

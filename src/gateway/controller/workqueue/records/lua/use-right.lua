-- Records when a right was used, unless the queue is being removed or there are too many.
--
-- KEYS[1] queue HASH
-- KEYS[2] rights HASH
-- ARGV[1] the right
-- ARGV[2] now
-- ARGV[3] how many rights are recorded at most
--
-- Answer: 1, or 0 when nothing was recorded.

if redis.call('HEXISTS', KEYS[1], 'incarnation') == 0 then
  return 0
end
if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 and redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[3]) then
  return 0
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1

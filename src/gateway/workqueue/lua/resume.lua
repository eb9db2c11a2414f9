-- Ends a pause: the keys that waited for its end join the backlog, in the order in which they came.
--
-- KEYS[1] pauses HASH
-- KEYS[2] pause ends ZSET
-- KEYS[3] ZSET of keys that wait for the end of the pause
-- KEYS[4] backlog ZSET
-- ARGV[1] scope
-- ARGV[2] '' always; else only if the pause ends at this time, as it was read
--
-- Answer: how many keys waited; -1 when the pause ends at another time.

if ARGV[2] ~= '' then
  local ends = redis.call('ZSCORE', KEYS[2], ARGV[1])
  if not ends or tonumber(ends) ~= tonumber(ARGV[2]) then return -1 end
end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
local waited = redis.call('ZCARD', KEYS[3])
if waited > 0 then
  redis.call('ZUNIONSTORE', KEYS[4], 2, KEYS[4], KEYS[3], 'AGGREGATE', 'MIN')
  redis.call('UNLINK', KEYS[3])
end
return waited

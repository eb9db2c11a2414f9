-- Records that controllers may have runs on this Redis process.
--
-- KEYS[1] registry HASH
-- ARGV[1] run_id of the process: refused when the registry names another. A client sends a script again when the
--   connection breaks, and Redis may have come back without data then: a controller with a record and no queue would
--   look as if its queue alone had been lost.
-- ARGV[2] '1': in place of the record of a removal as well; '0': which stays
-- ARGV[3..] fields of the controllers
--
-- Answer: 1, or 0 when it was refused.

if redis.call('HGET', KEYS[1], 'runId') ~= ARGV[1] then
  return 0
end
local command = ARGV[2] == '1' and 'HSET' or 'HSETNX'
for at = 3, #ARGV do
  redis.call(command, KEYS[1], ARGV[at], '1')
end
return 1

-- Records that a run is about to write, if it may: its key must have this run in flight, its deadline must not have
-- passed, and its writes must not have ended.
--
-- KEYS[1] record HASH of the key
-- KEYS[2] writes HASH of the key: `run`, `ended`, `bytes`, `more`, and for each write `w` and its id
-- KEYS[3] queue HASH
-- ARGV[1] run
-- ARGV[2] incarnation of the run's queue
-- ARGV[3] now
-- ARGV[4] id of the write
-- ARGV[5] the note of the write, until end-write.lua replaces it by the outcome
-- ARGV[6] how long the HASH stays after the deadline, in ms
--
-- Answer: the run's deadline, or '' if it may not write.

local record = redis.call('HMGET', KEYS[1], 'run', 'deadline')
if record[1] ~= ARGV[1] or redis.call('HGET', KEYS[3], 'incarnation') ~= ARGV[2] then return '' end
local left = tonumber(record[2]) - tonumber(ARGV[3])
if left <= 0 then return '' end
local writes = redis.call('HMGET', KEYS[2], 'run', 'ended')
if writes[1] ~= ARGV[1] then
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[2], 'run', ARGV[1])
elseif writes[2] then
  return ''
end
redis.call('HSET', KEYS[2], 'w' .. ARGV[4], ARGV[5])
redis.call('PEXPIRE', KEYS[2], math.ceil(left) + tonumber(ARGV[6]))
return record[2]

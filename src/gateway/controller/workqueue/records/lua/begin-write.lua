-- Records that a run is about to write, if it may: its key must have this run in flight, its deadline must not have
-- passed, and its writes must not have ended.
--
-- ARGV[1] run
-- ARGV[2] incarnation of the run's queue
-- ARGV[3] now
-- ARGV[4] id of the write
-- ARGV[5] the note of the write, until end-write.lua replaces it by the outcome
-- ARGV[6] how long the HASH of the writes stays after the deadline, in ms
-- ARGV[7] how many fields the HASH may have before the write
-- ARGV[8] key
--
-- Answer: the run's deadline, or '' if it may not write, or 'full' if the HASH has too many fields.

local record = redis.call('HMGET', KEYS[1] .. ':key:' .. ARGV[8], 'run', 'deadline')
if record[1] ~= ARGV[1] or redis.call('HGET', KEYS[1] .. ':queue', 'incarnation') ~= ARGV[2] then return '' end
local left = tonumber(record[2]) - tonumber(ARGV[3])
if left <= 0 then return '' end
local writes = KEYS[1] .. ':writes:' .. ARGV[8]
local known = redis.call('HMGET', writes, 'run', 'ended')
if known[1] ~= ARGV[1] then
  redis.call('DEL', writes)
  redis.call('HSET', writes, 'run', ARGV[1])
elseif known[2] then
  return ''
elseif redis.call('HLEN', writes) >= tonumber(ARGV[7]) then
  return 'full'
end
redis.call('HSET', writes, 'w' .. ARGV[4], ARGV[5])
redis.call('PEXPIRE', writes, math.ceil(left) + tonumber(ARGV[6]))
return record[2]

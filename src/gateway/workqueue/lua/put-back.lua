-- Puts runs in flight back on record after Redis may have lost them. The caller is the only gateway that can have started keys since.
--
-- KEYS[1] what a key is appended to, to name its record HASH
-- KEYS[2] inFlight ZSET
-- KEYS[3] runs counter
-- KEYS[4] slots ZSET
-- KEYS[5] queue HASH: runId
-- ARGV[1] run_id of the Redis process
-- ARGV[2] margin, see start.lua
-- ARGV[3] until when a running run holds its slot
-- ARGV[4] the highest run number that was given out
-- then    four each: key, run, deadline, 'running' | 'busy' | 'unknown'
--
-- Answer: how many runs are on record; -1 when the queue is in order on this process: keys may have started since. A run that is on record for the key is an earlier one, or a start that was sent again and has not begun.

if redis.call('HGET', KEYS[5], 'runId') == ARGV[1] then return -1 end
-- Else a later run of a key could have the number of an earlier one.
if tonumber(redis.call('GET', KEYS[3]) or 0) < tonumber(ARGV[4]) then redis.call('SET', KEYS[3], ARGV[4]) end
local count = 0
for at = 5, #ARGV, 4 do
  local key, run, deadline, state = unpack(ARGV, at, at + 3)
  local record = KEYS[1] .. key
  -- A key whose record cannot be written does not start either.
  local written = redis.pcall('HSET', record, 'run', run, 'deadline', deadline)
  if type(written) == 'number' then
    redis.call('HDEL', record, 'nonce', 'busy', 'error')
    if state == 'busy' then redis.call('HSET', record, 'busy', '1') end
    if state == 'running' then redis.call('ZADD', KEYS[4], ARGV[3], key) else redis.call('ZREM', KEYS[4], key) end
    redis.call('ZADD', KEYS[2], tonumber(deadline) + tonumber(ARGV[2]), key)
    count = count + 1
  end
end
return count

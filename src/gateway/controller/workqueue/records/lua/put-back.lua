-- Puts runs in flight of one gateway back on record after Redis may have lost them. No key starts in this Redis process
-- before each gateway that may have runs has done so, or their runs are over.
--
-- ARGV[1] run_id of the Redis process
-- ARGV[2] margin, see start.lua
-- ARGV[3] until when a running run holds its slot
-- ARGV[4] the highest run number that was given out
-- ARGV[5] how many runs of this gateway have become busy
-- ARGV[6] for how long this number is kept, in ms
-- ARGV[7] the gateway's id, see `busiesPrefix`
-- then    five each: key, run, deadline, 'running' | 'accepted' (the run is busy) | 'unknown', the number of a busy run in
--         the count of ARGV[5], else 0
--
-- Answer: how many runs are on record; -1 when the queue is in order on this process: keys may have started since.
--
-- Redis loses its last writes only. If its count includes a busy run, the write of that run has survived, so the key is
-- left as it is: the run is still on record, or has ended. The key may have another run on record: an earlier one, a later
-- one of another gateway (`back`, `busy`), which stays, or a start that was sent again and has not begun.

local records, queue, runs = KEYS[1] .. ':key:', KEYS[1] .. ':queue', KEYS[1] .. ':runs'
local in_flight, slots, own_busies = KEYS[1] .. ':in-flight', KEYS[1] .. ':slots', KEYS[1] .. ':busies:' .. ARGV[7]
if redis.call('HGET', queue, 'runId') == ARGV[1] then return -1 end
-- Until the queue is in order, the counter does not show which starts this Redis process has: see finish.lua. Without an
-- incarnation the field marks a removal that goes on (disown.lua).
if redis.call('HEXISTS', queue, 'incarnation') == 1 then redis.call('HDEL', queue, 'runId') end
-- Else a later run of a key could have the number of an earlier one.
if tonumber(redis.call('GET', runs) or 0) < tonumber(ARGV[4]) then redis.call('SET', runs, ARGV[4]) end
local known = tonumber(redis.call('GET', own_busies) or 0)
if tonumber(ARGV[5]) > 0 then redis.call('SET', own_busies, ARGV[5], 'PX', ARGV[6]) end

local function is_later(record, run)
  local r = redis.pcall('HMGET', record, 'run', 'back', 'busy')
  return not r.err and r[1] and tonumber(r[1]) > tonumber(run) and (r[2] == ARGV[1] or r[3])
end

local count = 0
for at = 8, #ARGV, 5 do
  local key, run, deadline, state, busies = unpack(ARGV, at, at + 4)
  local record = records .. key
  local is_known = state == 'accepted' and tonumber(busies) <= known
  -- A key whose record cannot be written does not start either.
  local written = not is_known
    and not is_later(record, run)
    and redis.pcall('HSET', record, 'run', run, 'deadline', deadline, 'back', ARGV[1])
  if type(written) == 'number' then
    redis.call('HDEL', record, 'nonce', 'busy', 'error')
    if state == 'accepted' then redis.call('HSET', record, 'busy', '1') end
    if state == 'running' then redis.call('ZADD', slots, ARGV[3], key) else redis.call('ZREM', slots, key) end
    redis.call('ZADD', in_flight, tonumber(deadline) + tonumber(ARGV[2]), key)
    count = count + 1
  end
end
return count

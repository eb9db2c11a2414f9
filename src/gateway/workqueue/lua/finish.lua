-- Ends a run: takes the flight off the record and stores what becomes of the key.
--
-- KEYS[1] record HASH
-- KEYS[2] timers ZSET
-- KEYS[3] flights ZSET
-- ARGV[1] key
-- ARGV[2] run: refused unless it is the one in flight
-- ARGV[3] now
-- ARGV[4] 'forget' | 'count' | 'keep' the failures
-- ARGV[5] when to run again (milliseconds since the epoch), or ''
-- ARGV[6] barrier, or ''
--
-- Answer: 1, or 0 when another run is in flight or none: the outcome came too late and changed nothing.

local record, timers, flights = KEYS[1], KEYS[2], KEYS[3]
local key, run, now, failures, again, barrier = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

if redis.call('HGET', record, 'run') ~= run then
  return 0
end
local dirty = redis.call('HGET', record, 'dirty')
redis.call('HDEL', record, 'run', 'deadline', 'nonce', 'dirty')
redis.call('ZREM', flights, key)
if failures == 'forget' then
  redis.call('HDEL', record, 'failures')
elseif failures == 'count' then
  redis.call('HINCRBY', record, 'failures', 1)
end
-- A poller may have read a timer of this key and be about to move it ahead if it is unchanged. The run's own fraction of
-- a millisecond makes a timer that is set in that very millisecond another one.
local fraction = (tonumber(run) % 1000) / 1024
if dirty then
  redis.call('ZADD', timers, 'LT', now + fraction, key)
end
if again ~= '' then
  redis.call('ZADD', timers, 'LT', again + fraction, key)
end
if barrier ~= '' then
  redis.call('HSET', record, 'barrier', barrier, 'barrierAt', now)
  -- Nothing may ever wake this key again. By then every view has long passed the barrier, so it need not stay.
  if failures == 'forget' then redis.call('PEXPIRE', record, 3600000) end
end
return 1

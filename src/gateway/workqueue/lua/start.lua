-- Decides whether a key may run now, and if so puts the run on record. Guards every run: overlap is prevented here and
-- not by BullMQ's lock.
--
-- KEYS[1] record HASH   run, deadline, nonce, barrier, dirty, failures, reasons, queuedAt
-- KEYS[2] timers ZSET
-- KEYS[3] flights ZSET
-- KEYS[4] backlog ZSET
-- KEYS[5] runs   counter
-- KEYS[6] queue  HASH   lowReason
-- ARGV[1] key
-- ARGV[2] now
-- ARGV[3] deadline of the run, if it starts
-- ARGV[4] margin: how long after its deadline a run in flight still blocks the key
-- ARGV[5] nonce of this call: the same call sent twice (broken connection) gets the same answer
-- ARGV[6] the barrier that the caller has found passed, or ''
--
-- Answer: {'go', run, failures, reasons, queuedAt, reason of the backlog if the key stood there, else ''}
--         {'busy'}              a run is in flight; the key is marked dirty, its finish queues it again
--         {'lost', run, failures}  a run's deadline has passed without an outcome: settle it
--         {'barrier', barrier}  writes of the last run are not in the cache yet; a timer is set

local record, timers, flights, backlog = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local key, now, deadline, margin, nonce, seen = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], ARGV[6]

local r = redis.call('HMGET', record, 'run', 'deadline', 'nonce', 'barrier', 'failures', 'reasons', 'queuedAt')
local run, run_deadline, run_nonce, barrier = r[1], r[2], r[3], r[4]
local failures, reasons, queued_at = tonumber(r[5] or 0), r[6] or '', r[7] or ''

if run then
  if run_nonce == nonce then
    return { 'go', tonumber(run), failures, reasons, queued_at, '' }
  end
  if tonumber(run_deadline) + margin > now then
    redis.call('HSET', record, 'dirty', '1')
    redis.call('ZREM', backlog, key)
    redis.call('ZREM', timers, key)
    return { 'busy' }
  end
  return { 'lost', tonumber(run), failures }
end

if barrier and barrier ~= seen then
  -- One tick ahead: the caller asks first whether it has passed, and the poller would add the key a second time. And
  -- without LT: a timer that is due already changes too, so that a poller which has read it leaves this one alone.
  redis.call('ZADD', timers, now + 20, key)
  redis.call('ZREM', backlog, key)
  return { 'barrier', barrier }
end

run = redis.call('INCR', KEYS[5])
redis.call('HDEL', record, 'barrier', 'barrierAt', 'dirty', 'reasons', 'queuedAt')
redis.call('HSET', record, 'run', run, 'deadline', deadline, 'nonce', nonce)
redis.call('PERSIST', record)
redis.call('ZADD', flights, deadline + margin, key)
redis.call('ZREM', timers, key)
local low = ''
if redis.call('ZREM', backlog, key) == 1 then
  low = redis.call('HGET', KEYS[6], 'lowReason') or ''
end
return { 'go', run, failures, reasons, queued_at, low }

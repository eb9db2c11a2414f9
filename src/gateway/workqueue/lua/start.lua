-- Decides for each given key whether it may run now, and if so records the run. This script, not BullMQ's lock, prevents a second run of a key at the same time.
--
-- KEYS[1]  what a key is appended to, to name its record HASH: run, deadline, nonce, busy, dirty, barrier, barrierAt,
--          error, failures, dead, reasons, queuedAt, tokenAt
-- KEYS[2]  timers ZSET
-- KEYS[3]  inFlight ZSET
-- KEYS[4]  backlog ZSET
-- KEYS[5]  debounced ZSET
-- KEYS[6]  runs counter
-- KEYS[7]  queue HASH: lowReason
-- KEYS[8]  pauses HASH
-- KEYS[9]  what a scope is appended to, to name the ZSET of keys that wait for the end of its pause
-- KEYS[10] bucket STRING
-- KEYS[11] dead ZSET
-- KEYS[12] queued ZSET
-- KEYS[13] resting ZSET
-- ARGV[1]  now
-- ARGV[2]  deadline of the runs that start
-- ARGV[3]  margin: how long after its deadline a run in flight still blocks the key
-- ARGV[4]  after how long a barrier is looked at again
-- ARGV[5]  rate limit: ms for one token, 0 for no limit
-- ARGV[6]  rate limit: burst
-- then     three each: key, nonce of the call (the same call sent twice, after a broken connection, gets the same answer),
--          and the barrier that the caller has found passed, or ''
--
-- Answer, for each key:
--   {'go', run, failures, reasons, queuedAt, reason of the backlog if the key stood there, else ''}
--   {'idle'}                  nothing to do: an earlier run has handled the add of this job
--   {'busy'}                  a run is in flight; the key is marked dirty, its finish queues it again
--   {'lost', run, failures, error}   a run's deadline has passed without an outcome: settle it
--   {'paused'}                a pause covers it; its end queues it again
--   {'barrier', barrier}      writes of the last run are not in the cache yet; a timer is set
--   {'limited', when}         its token comes then; a timer is set

local now, deadline, margin = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local per_token, burst = tonumber(ARGV[5]), tonumber(ARGV[6])
local timers, in_flight, backlog, debounced, pauses = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[8]
local queued, resting = KEYS[12], KEYS[13]
-- Sets that are not there are asked once for all keys: at rest there are none.
local has = {}
for _, set in ipairs({ timers, backlog, debounced, pauses, queued, resting }) do has[set] = redis.call('EXISTS', set) == 1 end

local function score(set, key)
  return has[set] and redis.call('ZSCORE', set, key)
end

local function remove(set, key)
  if has[set] then redis.call('ZREM', set, key) end
end

-- The first of the pauses that cover a key.
local function paused_by(key)
  if not has[pauses] then return nil end
  local scopes = { 'controller', 'breaker', 'recovery', 'object/' .. key }
  local slash = string.find(key, '/', 1, true)
  if slash then scopes[5] = 'namespace/' .. string.sub(key, 1, slash - 1) end
  for at, found in ipairs(redis.call('HMGET', pauses, unpack(scopes))) do
    if found then return scopes[at] end
  end
  return nil
end

-- When the key's token comes: a token is reserved for it once, so a crowd does not ask again and again.
local function token_at(record, reserved)
  if reserved then return tonumber(reserved) end
  local full = math.max(now, tonumber(redis.call('GET', KEYS[10]) or 0)) + per_token
  -- Gone when it has long been full: real time, which a test's clock need not be.
  redis.call('SET', KEYS[10], string.format('%.3f', full), 'PX', math.ceil(full - now + burst * per_token) + 3600000)
  local at = math.ceil(full - burst * per_token)
  if at > now then redis.call('HSET', record, 'tokenAt', at) end
  return at
end

local function start(key, nonce, seen)
  local record = KEYS[1] .. key
  local r = redis.call('HMGET', record, 'run', 'deadline', 'nonce', 'barrier', 'failures', 'reasons', 'queuedAt', 'dead', 'tokenAt', 'error')
  local run, barrier, failures = r[1], r[4], tonumber(r[5] or 0)
  local reasons, queued_at, dead = r[6] or '', r[7] or '', r[8]
  if run and r[3] == nonce then
    -- The caller never got the answer. It counts the deadline from this call on, and the run has not begun.
    redis.call('HSET', record, 'deadline', deadline)
    redis.call('ZADD', in_flight, deadline + margin, key)
    return { 'go', tonumber(run), failures, reasons, queued_at, '' }
  end

  local timer, low, waited = score(timers, key), score(backlog, key), score(debounced, key)
  -- A timer of the future is no reason: a job that comes too often must not cut a backoff short.
  local wanted = r[7] or (timer and tonumber(timer) <= now) or low or waited
  if run and tonumber(r[2]) + margin <= now then
    -- This job ends with the settling: what it was added for must not wait for the backoff.
    if wanted then redis.call('HSET', record, 'dirty', '1') end
    return { 'lost', tonumber(run), failures, r[10] or '' }
  end
  if not wanted then return { 'idle' } end
  if run then
    redis.call('HSET', record, 'dirty', '1')
    remove(backlog, key)
    remove(timers, key)
    remove(debounced, key)
    return { 'busy' }
  end

  local scope = paused_by(key)
  if scope then
    redis.call('ZADD', KEYS[9] .. scope, 'NX', now, key)
    remove(timers, key)
    remove(backlog, key)
    remove(debounced, key)
    return { 'paused' }
  end

  if barrier and barrier ~= seen then
    -- A little ahead: the caller asks first whether it has passed, and the poller would add the key a second time. And
    -- without LT: a timer that is due already changes too, so that a poller which has read it leaves this one alone.
    redis.call('ZADD', timers, now + tonumber(ARGV[4]), key)
    has[timers] = true
    remove(backlog, key)
    remove(debounced, key)
    return { 'barrier', barrier }
  end

  if per_token > 0 then
    local at = token_at(record, r[9])
    if at > now then
      redis.call('ZADD', timers, at, key)
      has[timers] = true
      remove(backlog, key)
      remove(debounced, key)
      return { 'limited', tostring(at) }
    end
  end

  run = redis.call('INCR', KEYS[6])
  local low_reason = ''
  if low then
    low_reason = redis.call('HGET', KEYS[7], 'lowReason') or ''
    redis.call('ZREM', backlog, key)
    if queued_at == '' and tonumber(low) <= now then queued_at = low end
  end
  if timer then redis.call('ZREM', timers, key) end
  if waited then redis.call('ZREM', debounced, key) end
  redis.call('HDEL', record, 'queuedAt', 'reasons', 'dirty', 'barrier', 'barrierAt', 'tokenAt')
  if dead then
    redis.call('HDEL', record, 'dead', 'failures')
    redis.call('ZREM', KEYS[11], key)
    failures = 0
  end
  redis.call('HSET', record, 'run', run, 'deadline', deadline, 'nonce', nonce)
  if barrier then
    -- A gateway of an earlier version let a record with nothing but a barrier expire.
    redis.call('PERSIST', record)
    remove(resting, key)
  end
  redis.call('ZADD', in_flight, deadline + margin, key)
  return { 'go', run, failures, reasons, queued_at, low_reason }
end

local answers = {}
for at = 7, #ARGV, 3 do
  answers[#answers + 1] = start(ARGV[at], ARGV[at + 1], ARGV[at + 2])
  -- Last: a key whose start fails half-way stays where the gateway looks for keys without a job.
  remove(queued, ARGV[at])
end
return answers

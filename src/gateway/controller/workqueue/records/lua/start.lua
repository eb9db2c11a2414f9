-- Decides for each given key whether it may run now, and if so records the run. Starts low-priority keys of the backlog
-- in the slots that are left. This script prevents a second run of a key at the same time, and counts the runs of all
-- gateways.
--
-- ARGV[1]  now
-- ARGV[2]  deadline of the runs that start
-- ARGV[3]  margin: how long after its deadline a run in flight still blocks the key
-- ARGV[4]  after how long a barrier is checked again
-- ARGV[5]  rate limit: ms for one token, 0 for no limit
-- ARGV[6]  rate limit: burst
-- ARGV[7]  how many runs there may be at a time
-- ARGV[8]  when the slot of a run that starts expires
-- ARGV[9]  maximum of low-priority keys to start
-- ARGV[10] how many of them get slots before the given keys
-- ARGV[11] nonce of the call, for the low-priority keys
-- ARGV[12] whose queue the caller takes it for: see `location` of WorkQueueOptions; '': anybody's
-- ARGV[13] how long the history of a dead letter stays after the start of its next run, in ms
-- ARGV[14] the gateway's id, see `takenPrefix`
-- then     three each: key, nonce (a start that is sent twice, after a lost connection, gets the same answer),
--          and a barrier of the key that has passed, or ''
--
-- Answer: {an answer for each given key, for each low-priority key the key and its answer, whether the backlog has further
-- keys that may run as 1 or 0, the incarnation of the queue or ''}, or 'foreign': the queue is another owner's, or was
-- removed, and nothing has changed. The answer for a key is one of
--   {'go', run, failures, reasons, queuedAt, reason of the backlog if the key was in it, else '', since when the key has
--   waited for its barrier, or '', '1' if the key has a history of failures, else ''}
--   {'idle'}                  the key has no reason to run: an earlier run has handled it
--   {'busy'}                  a run is in flight; the key is marked dirty, its finish makes it ready again
--   {'lost', run, failures, error}   the deadline of a run has passed without an outcome: the caller settles it
--   {'paused'}                a pause covers the key; the end of the pause puts it into the backlog
--   {'barrier', barrier}      the cache lacks writes of the last run; a timer is set
--   {'full'}                  there is no free slot; nothing has changed
--   {'limited', when}         the key gets its token at that time; a timer is set
--   {'refused', message}      the key's record cannot be read; the key is among the queued keys

local prefix = KEYS[1]
local queue = prefix .. ':queue'
local incarnation, owner = unpack(redis.call('HMGET', queue, 'incarnation', 'owner'))
if ARGV[12] ~= '' and owner ~= ARGV[12] then
  -- The queue of a configured function has no owner.
  if owner or not incarnation then return 'foreign' end
  redis.call('HSET', queue, 'owner', ARGV[12])
end

local now, deadline, margin = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local per_token, burst = tonumber(ARGV[5]), tonumber(ARGV[6])
local records, timers, in_flight = prefix .. ':key:', prefix .. ':timers', prefix .. ':in-flight'
local backlog, debounced, pauses = prefix .. ':backlog', prefix .. ':debounced', prefix .. ':pauses'
local queued, idle, slots = prefix .. ':queued', prefix .. ':resting', prefix .. ':slots'
local runs, bucket, last_taken = prefix .. ':runs', prefix .. ':bucket', prefix .. ':taken:' .. ARGV[14]
-- Checks once for all keys which sets exist: a queue at rest has none of them.
local has = {}
for _, set in ipairs({ timers, backlog, debounced, pauses, idle }) do has[set] = redis.call('EXISTS', set) == 1 end

-- Redis does not refuse a script for lack of memory when its first write is a removal, so remove only if there is a need.
if redis.call('ZCOUNT', slots, '-inf', now) > 0 then redis.call('ZREMRANGEBYSCORE', slots, '-inf', now) end
local free = tonumber(ARGV[7]) - redis.call('ZCARD', slots)
-- Slots that are reserved for low-priority keys while the given keys start.
local reserved_slots = 0
local in_flight_pairs, slot_pairs, ended = {}, {}, {}

local function score(set, key)
  return has[set] and redis.call('ZSCORE', set, key)
end

local function remove(set, key)
  if has[set] then redis.call('ZREM', set, key) end
end

local function record_flight(key, takes_slot)
  in_flight_pairs[#in_flight_pairs + 1] = deadline + margin
  in_flight_pairs[#in_flight_pairs + 1] = key
  slot_pairs[#slot_pairs + 1] = ARGV[8]
  slot_pairs[#slot_pairs + 1] = key
  if takes_slot then free = free - 1 end
end

-- Returns the first of the pauses that cover a key.
local function paused_by(key)
  if not has[pauses] then return nil end
  local scopes = { 'controller', 'recovery', 'object/' .. key, 'key/' .. key }
  local slash = string.find(key, '/', 1, true)
  if slash then scopes[5] = 'namespace/' .. string.sub(key, 1, slash - 1) end
  for at, found in ipairs(redis.call('HMGET', pauses, unpack(scopes))) do
    if found then return scopes[at] end
  end
  return nil
end

-- Returns when the key gets its token. The token is reserved once, so that a waiting key takes no further token.
local function token_at(record, reserved)
  if reserved then return tonumber(reserved) end
  local full = math.max(now, tonumber(redis.call('GET', bucket) or 0)) + per_token
  -- Expires an hour after the bucket is full, by Redis' clock, from which the clock of a test may differ.
  redis.call('SET', bucket, string.format('%.3f', full), 'PX', math.ceil(full - now + burst * per_token) + 3600000)
  local at = math.ceil(full - burst * per_token)
  if at > now then redis.call('HSET', record, 'tokenAt', at) end
  return at
end

local function start(key, nonce, passed_barrier)
  local record = records .. key
  local r = redis.call('HMGET', record, 'run', 'deadline', 'nonce', 'barrier', 'failures', 'reasons', 'queuedAt', 'dead', 'tokenAt', 'error', 'dirty', 'heldAt', 'unsent')
  local run, barrier, failures = r[1], r[4], tonumber(r[5] or 0)
  local reasons, queued_at, dead = r[6] or '', r[7] or '', r[8]
  if run and r[3] == nonce then
    -- The caller did not get the first answer, so the run has not begun. Its deadline counts from this call. After the
    -- first deadline another gateway may be settling the run, so the run gets a number that this outcome does not have.
    if tonumber(r[2]) <= now then run = redis.call('INCR', runs) end
    redis.call('HSET', record, 'run', run, 'deadline', deadline)
    record_flight(key, not redis.call('ZSCORE', slots, key))
    -- The reasons on record were added after the first call, so the next run gets them.
    return { 'go', tonumber(run), failures, '', '', '', '', r[5] and '1' or '', '' }
  end

  local held_at = r[12]
  local timer, low, waited = score(timers, key), score(backlog, key), score(debounced, key)
  -- A timer that is not due is no reason to run: a repeated job must not shorten a backoff.
  local wanted = r[7] or (timer and tonumber(timer) <= now) or low or waited
  if run and tonumber(r[2]) + margin <= now then
    -- The caller settles the lost run. A key with a reason to run then runs once more, without a backoff.
    if wanted then redis.call('HSET', record, 'dirty', '1') end
    return { 'lost', tonumber(run), failures, r[10] or '' }
  end
  if not wanted then
    -- A script that failed half-way may have changed the record without the set, or the reverse.
    if run then
      redis.call('ZADD', in_flight, 'NX', tonumber(r[2]) + margin, key)
    else
      redis.call('ZREM', in_flight, key)
    end
    return { 'idle' }
  end
  if run then
    redis.call('HSET', record, 'dirty', '1')
    remove(backlog, key)
    remove(timers, key)
    remove(debounced, key)
    return { 'busy' }
  end

  local scope = paused_by(key)
  if scope then
    -- The keys that are paused one by one share a set, because there may be many of them.
    local set = string.match(scope, '^object/') and 'object' or string.match(scope, '^key/') and 'key' or scope
    redis.call('ZADD', prefix .. ':paused:' .. set, 'NX', now, key)
    remove(timers, key)
    remove(backlog, key)
    remove(debounced, key)
    return { 'paused' }
  end

  if barrier and barrier ~= passed_barrier then
    if not held_at then redis.call('HSET', record, 'heldAt', now) end
    -- The timer is a little ahead, so that the caller checks the barrier before the poller finds the key. ZADD without LT
    -- also changes a timer that is due: a poller that has read the old time leaves the new timer alone.
    redis.call('ZADD', timers, now + tonumber(ARGV[4]), key)
    has[timers] = true
    remove(backlog, key)
    remove(debounced, key)
    return { 'barrier', barrier }
  end

  if free <= reserved_slots then return { 'full' } end

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

  run = redis.call('INCR', runs)
  local low_reason = ''
  if low then
    low_reason = redis.call('HGET', queue, 'lowReason') or ''
    redis.call('ZREM', backlog, key)
    if queued_at == '' and tonumber(low) <= now then queued_at = low end
  end
  if timer then redis.call('ZREM', timers, key) end
  if waited then redis.call('ZREM', debounced, key) end
  redis.call('HSET', record, 'run', run, 'deadline', deadline, 'nonce', nonce)
  if r[13] or r[7] or r[11] or barrier or r[9] then
    redis.call('HDEL', record, 'queuedAt', 'reasons', 'unsent', 'dirty', 'barrier', 'barrierAt', 'tokenAt', 'heldAt')
  end
  if dead then
    redis.call('HDEL', record, 'dead')
    -- The field stays: it makes the finish write a success into the history of the key, which then expires.
    redis.call('HSET', record, 'failures', 0)
    redis.call('ZREM', prefix .. ':dead', key)
    if redis.call('PEXPIRE', prefix .. ':history:' .. key, ARGV[13]) == 1 then
      local histories = prefix .. ':histories'
      redis.call('ZADD', histories, now + ARGV[13], key)
      redis.call('PEXPIRE', histories, ARGV[13])
    end
    failures = 0
  end
  if barrier then remove(idle, key) end
  record_flight(key, true)
  return { 'go', run, failures, reasons, queued_at, low_reason, held_at or '', (dead or r[5]) and '1' or '', r[13] or '' }
end

-- As `start`. A record that cannot be read must not stop the other keys.
local function try(key, nonce, passed_barrier)
  local is_read, answer = pcall(start, key, nonce, passed_barrier)
  if is_read then return answer end
  local message = type(answer) == 'table' and answer.err or tostring(answer)
  -- These are errors of Redis rather than of one record.
  for _, code in ipairs({ 'OOM', 'READONLY', 'MISCONF', 'NOREPLICAS' }) do
    if string.find(message, code, 1, true) then error(answer) end
  end
  -- A gateway finds the key among the queued keys, since it has no job.
  redis.call('ZADD', queued, 'NX', now, key)
  return { 'refused', message }
end

local taken = {}

-- Starts up to `count` keys from the head of the backlog.
local function take(count)
  local looked = 0
  while count > 0 and free > 0 do
    if per_token > 0 then
      -- A low-priority key must not reserve a token that a key which is added later needs.
      local full = math.max(now, tonumber(redis.call('GET', bucket) or 0)) + per_token
      if math.ceil(full - burst * per_token) > now + per_token then return end
    end
    local keys = redis.call('ZRANGEBYSCORE', backlog, '-inf', now, 'LIMIT', 0, per_token > 0 and 1 or count)
    if #keys == 0 then return end
    for _, key in ipairs(keys) do
      local answer = try(key, ARGV[11], '')
      if answer[1] ~= 'refused' then ended[#ended + 1] = key end
      -- A key that does not start waits in another set.
      if answer[1] == 'go' then
        count = count - 1
      else
        redis.call('ZREM', backlog, key)
      end
      if answer[1] ~= 'paused' then
        taken[#taken + 1] = key
        taken[#taken + 1] = answer
      end
    end
    -- Many keys of a paused namespace leave the backlog in several calls.
    looked = looked + #keys
    if looked >= 1000 then return end
  end
end

local low_count, first = tonumber(ARGV[9]), tonumber(ARGV[10])
local pauses_all = false
if low_count > 0 and has[pauses] then
  for _, found in ipairs(redis.call('HMGET', pauses, 'controller', 'recovery')) do
    if found then pauses_all = true end
  end
end

local again
if low_count > 0 then
  again = redis.call('GET', last_taken)
  if again then again = cjson.decode(again) end
  if again and again[1] ~= ARGV[11] then again = nil end
  -- The caller did not get the first answer: it gets the same keys.
  for at = 2, again and #again or 1 do
    taken[#taken + 1] = again[at]
    taken[#taken + 1] = try(again[at], ARGV[11], '')
  end
end
local takes = low_count > 0 and not again and not pauses_all and has[backlog]
if takes then reserved_slots = math.min(first, redis.call('ZCARD', backlog)) end

local answers = {}
for at = 15, #ARGV, 3 do
  local answer = try(ARGV[at], ARGV[at + 1], ARGV[at + 2])
  answers[#answers + 1] = answer
  if answer[1] ~= 'full' and answer[1] ~= 'refused' then ended[#ended + 1] = ARGV[at] end
end
if takes then
  -- Keys that were added go first, including the keys that other gateways are about to start.
  local waiting = redis.call('ZCARD', queued) - #ended
  local room = math.max(reserved_slots, math.min(low_count, free - math.max(0, waiting)))
  reserved_slots = 0
  take(room)
  if #taken > 0 then
    local names = { ARGV[11] }
    for at = 1, #taken, 2 do names[#names + 1] = taken[at] end
    redis.call('SET', last_taken, cjson.encode(names), 'PX', math.ceil(deadline - now + margin))
  end
end

if #in_flight_pairs > 0 then
  redis.call('ZADD', in_flight, unpack(in_flight_pairs))
  redis.call('ZADD', slots, unpack(slot_pairs))
end
-- Last: a key whose start fails half-way stays in the set in which the gateway looks for keys without a job.
if #ended > 0 then redis.call('ZREM', queued, unpack(ended)) end
local low_left = (has[backlog] and not pauses_all and redis.call('EXISTS', backlog) == 1) and 1 or 0
return { answers, taken, low_left, incarnation or '' }

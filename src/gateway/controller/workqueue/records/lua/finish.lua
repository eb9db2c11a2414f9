-- Ends the given runs: removes each run from its key's record and stores when the key runs again.
--
-- ARGV[1] now
-- ARGV[2] margin, see start.lua
-- ARGV[3] failures after which a key is a dead letter, 0 for never
-- ARGV[4] how many outcomes a history holds
-- ARGV[5] how long a history stays after its last outcome, in ms
-- ARGV[6] how many runs of this gateway have become busy
-- ARGV[7] for how long this number is kept, in ms
-- ARGV[8] the gateway's id, see `busiesPrefix`
-- then    nine each:
--         key
--         run: refused unless it is the one in flight
--         'forget', 'count' or 'keep' the failures; 'busy': the run goes on; 'unknown': the run may go on and stays on
--         record
--         when to run again, or ''; for 'busy' the run's new deadline, unless it has a later one. Milliseconds since
--         the epoch. A run cannot become busy after its deadline and margin: a gateway may be settling it as lost
--         barrier, or ''
--         for 'unknown' what went wrong, or ''; else the run for the key's history (past-run.ts), or '' for a success
--         that is known to follow a success
--         '1' for a dead letter, else ''
--         the nonce of the start that has to be on record, see start.lua; '' for any
--         of a run that was not sent, its reasons, which the key's next run has; else ''
--
-- Answer, for each run: {code, when the key's timer is due or '', whether the key is ready to run again as 1 or 0}.
-- Code 0: the outcome came too late (no run or another run is in flight) and changed nothing; 1: done; 2: the key is a
-- dead letter now.
-- Code -1: the key's record cannot be read, and the second value says why.

local now, margin, max_failures = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local prefix = KEYS[1]
local records, timers, in_flight = prefix .. ':key:', prefix .. ':timers', prefix .. ':in-flight'
local queued, debounced = prefix .. ':queued', prefix .. ':debounced'
local slots, failing = prefix .. ':slots', prefix .. ':failing'

local function remember(key, past, keep)
  local history, histories = prefix .. ':history:' .. key, prefix .. ':histories'
  redis.call('LPUSH', history, past)
  redis.call('LTRIM', history, 0, tonumber(ARGV[4]) - 1)
  if keep then
    redis.call('PERSIST', history)
    redis.call('ZREM', histories, key)
    return
  end
  redis.call('PEXPIRE', history, ARGV[5])
  -- Each add removes two expired members, so that the set shrinks and no script removes many.
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', histories, '-inf', now, 'LIMIT', 0, 2)) do
    redis.call('ZREM', histories, gone)
  end
  redis.call('ZADD', histories, now + ARGV[5], key)
  redis.call('PEXPIRE', histories, ARGV[5])
end

-- Whether Redis still has the start of this run. Where it has lost data, the counter is behind or `put-back.lua` has raised
-- it and has deleted `runId`.
local function has_start(run)
  if (redis.call('HGET', prefix .. ':queue', 'runId') or '') == '' then return false end
  return tonumber(redis.call('GET', prefix .. ':runs') or 0) >= tonumber(run)
end

local function finish(key, run, mode, again, barrier, told, dead, nonce, unsent)
  local record = records .. key
  local r = redis.call('HMGET', record, 'run', 'dirty', 'failures', 'deadline', 'queuedAt', 'nonce')
  local is_current = r[1] == run and (nonce == '' or r[6] == nonce)
  -- A callback may have ended the run through another gateway. A lost record is not counted, so that `put-back.lua` writes
  -- it again.
  if mode == 'busy' and (is_current or has_start(run)) then
    redis.call('SET', prefix .. ':busies:' .. ARGV[8], ARGV[6], 'PX', ARGV[7])
  end
  if not is_current then return { 0, '', 0 } end
  if mode == 'busy' then
    if tonumber(r[4]) + margin <= tonumber(now) then return { 0, '', 0 } end
    if tonumber(again) < tonumber(r[4]) then again = r[4] end
    redis.call('HSET', record, 'deadline', again, 'busy', '1')
    redis.call('ZADD', in_flight, tonumber(again) + margin, key)
    redis.call('ZREM', slots, key)
    return { 1, '', 0 }
  end
  if mode == 'unknown' then
    if told ~= '' then redis.call('HSET', record, 'error', told) end
    redis.call('ZREM', slots, key)
    return { 1, '', 0 }
  end
  redis.call('HDEL', record, 'run', 'deadline', 'nonce', 'busy', 'back', 'dirty', 'error', mode == 'forget' and 'failures' or 'busy')
  redis.call('ZREM', in_flight, key)
  redis.call('ZREM', slots, key)
  -- The outcome is made. The memory shares do not count the record of the writes of a key at rest.
  redis.call('UNLINK', prefix .. ':writes:' .. key)
  local failures = tonumber(r[3] or 0)
  if mode == 'count' then
    failures = redis.call('HINCRBY', record, 'failures', 1)
    if max_failures > 0 and failures >= max_failures then dead = '1' end
  end
  if dead == '1' then
    redis.call('HSET', record, 'dead', now)
    redis.call('ZADD', prefix .. ':dead', now, key)
    again = ''
  end
  if dead == '1' or mode == 'forget' then
    redis.call('ZREM', failing, key)
  elseif mode == 'count' then
    -- NX: the score stays the time of the first failure, so that it shows for how long the key has been failing.
    redis.call('ZADD', failing, 'NX', now, key)
  end
  -- Only failures, and the success that ends them, go into the history.
  if told ~= '' and (mode ~= 'forget' or dead == '1' or r[3]) then
    if dead == '1' then told = string.gsub(told, '^{"outcome":"%a+"', '{"outcome":"dead"') end
    -- A history that cannot be written must not fail the run.
    pcall(remember, key, told, dead == '1')
  end
  if unsent ~= '' then redis.call('HSET', record, 'unsent', unsent) end
  -- A poller may have read a timer of this key and moves it ahead if it is unchanged. The fraction of a millisecond,
  -- which differs from run to run, makes a timer for the same millisecond a changed one.
  local fraction = (tonumber(run) % 1000) / 1024
  if again ~= '' then redis.call('ZADD', timers, 'LT', again + fraction, key) end
  if barrier ~= '' then
    redis.call('HSET', record, 'barrier', barrier, 'barrierAt', now)
    -- This key may never wake again, so its record is deleted once every view has passed the barrier (forget.lua).
    if mode == 'forget' and dead ~= '1' and not r[5] then redis.call('ZADD', prefix .. ':resting', now, key) end
  end
  -- A key that was added during its run, or whose timer came due, runs once more. A debounced key becomes ready when its
  -- window ends (wake.lua).
  local ready = 0
  if r[2] or (r[5] and not redis.call('ZSCORE', debounced, key)) then
    if not r[5] then redis.call('HSET', record, 'queuedAt', now) end
    ready = redis.call('ZADD', queued, 'NX', now, key)
  end
  return { dead == '1' and 2 or 1, again, ready }
end

-- Errors that are of Redis, and not of one record.
local function is_general(message)
  for _, code in ipairs({ 'OOM', 'READONLY', 'MISCONF', 'NOREPLICAS' }) do
    if string.find(message, code, 1, true) then return true end
  end
  return false
end

local answers = {}
for at = 9, #ARGV, 9 do
  local is_done, answer = pcall(finish, unpack(ARGV, at, at + 8))
  if not is_done then
    local message = type(answer) == 'table' and answer.err or tostring(answer)
    if is_general(message) then error(answer) end
    -- A record that cannot be read: the other runs end all the same.
    answer = { -1, message, 0 }
  end
  answers[#answers + 1] = answer
end
return answers

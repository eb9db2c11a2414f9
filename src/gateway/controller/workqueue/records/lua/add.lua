-- Records that the given keys were added, when and why, and answers which of them became ready to run.
--
-- ARGV[1] now
-- ARGV[2] debounce: window in ms, 0 for none
-- ARGV[3] debounce: longest wait in ms
-- ARGV[4] debounce: '1' for leading, a key waits only if its last run has written in the longest wait before now
-- then    four each: key, reasons (JSON objects joined by newlines, or ''), paused ('1', '0', or '' for unknown), since
--         when there is a reason to run it
--
-- Answer: {when the first of the debounced keys may run or '', the places of the keys that became ready, the places of the
-- keys whose pause has begun or ended}, places from 0. A key that waits or runs already did not become ready: its start or
-- its finish reads the record. Reasons beyond 2 KiB are dropped; the time of the first add stays.

local records, debounced, pauses = KEYS[1] .. ':key:', KEYS[1] .. ':debounced', KEYS[1] .. ':pauses'
local queued = KEYS[1] .. ':queued'
local now, window, longest, leading = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
-- Waits end on a grid of a tenth of the window, 100 ms at most, so that keys share a poll, a start and a trigger.
local step = math.max(1, math.min(100, math.floor(window / 10)))
local pausing = redis.call('EXISTS', pauses) == 1
local ready, changed, next_at = {}, {}, nil

-- Since when a debounced key waits, or nil if it need not: it is ready, or at rest and has not just written.
local function waits_since(key, first, run, wrote)
  if not leading or run then return first end
  if redis.call('ZSCORE', queued, key) then return nil end
  -- The start of a run takes the barrier off: this one is of the run before.
  if wrote and tonumber(wrote) + longest > now then return tonumber(wrote) end
  -- The longest wait is over, but the key still waits for the next step of the grid: it keeps this end.
  return redis.call('ZSCORE', debounced, key) and (tonumber(wrote) or first) or nil
end

for at = 5, #ARGV, 4 do
  local key, reasons, paused, since = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local record = records .. key
  local known = redis.call('HMGET', record, 'queuedAt', 'reasons', 'run', 'barrierAt')
  local first = tonumber(known[1])
  local has_room = reasons ~= '' and (not known[2] or #known[2] + #reasons < 2048)
  if has_room and known[2] then reasons = known[2] .. '\n' .. reasons end
  if not first then
    first = tonumber(since)
    if has_room then
      redis.call('HSET', record, 'queuedAt', since, 'reasons', reasons)
    else
      redis.call('HSET', record, 'queuedAt', since)
    end
  elseif has_room then
    redis.call('HSET', record, 'reasons', reasons)
  end
  local from = window > 0 and waits_since(key, first, known[3], known[4])
  if from then
    local due = math.ceil(math.min(now + window, from + longest) / step) * step
    redis.call('ZADD', debounced, due, key)
    if not next_at or due < next_at then next_at = due end
  elseif not known[3] and redis.call('ZADD', queued, 'NX', now, key) == 1 then
    -- A key that runs becomes ready at the end of its run (finish.lua).
    ready[#ready + 1] = (at - 5) / 4
  end
  if paused == '1' then
    if redis.call('HSETNX', pauses, 'object/' .. key, ARGV[1]) == 1 then changed[#changed + 1] = (at - 5) / 4 end
    pausing = true
  elseif paused == '0' and pausing then
    if redis.call('HDEL', pauses, 'object/' .. key) == 1 then changed[#changed + 1] = (at - 5) / 4 end
    redis.call('ZREM', KEYS[1] .. ':paused:object', key)
  end
end
return { next_at or '', ready, changed }

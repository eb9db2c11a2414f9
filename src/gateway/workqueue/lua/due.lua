-- Reads the keys for which the poller must act: due timers, debounced keys and pauses, runs past their deadline, and low-priority keys
-- when there is room.
--
-- KEYS[1] timers ZSET
-- KEYS[2] debounced ZSET
-- KEYS[3] inFlight ZSET
-- KEYS[4] backlog ZSET
-- KEYS[5] pause ends ZSET
-- KEYS[6] BullMQ's list of waiting jobs
-- KEYS[7] what a key is appended to, to name its record HASH
-- KEYS[8] pauses HASH
-- KEYS[9] what a scope is appended to, to name the ZSET of keys that wait for the end of its pause
-- ARGV[1] now
-- ARGV[2] most timers, debounced keys and runs in flight to return, each
-- ARGV[3] how many jobs may wait before low-priority keys stay in the backlog
--
-- Answer: {timers, debounced, inFlight, backlog, pauses, when the next of all these is due or '', whether low-priority keys
-- were left for want of room as 1 or 0}; timers as key, score, barrier or '', barrierAt or '' for each, the others as key,
-- score. The script moves up to 1000 paused low-priority keys to the set of their pause, because a job for each would delay live keys and start no run.

local now, limit, room = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local next_at = ''

-- The members of a set that are due; and the time of its next one.
local function due(set, count)
  local found = redis.call('ZRANGEBYSCORE', set, '-inf', now, 'WITHSCORES', 'LIMIT', 0, count)
  local coming = redis.call('ZRANGEBYSCORE', set, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if coming and (next_at == '' or tonumber(coming) < tonumber(next_at)) then next_at = coming end
  return found
end

local timers = due(KEYS[1], limit)
local with_barriers = {}
for at = 1, #timers, 2 do
  -- The start tells what is wrong with a record that cannot be read.
  local barrier = redis.pcall('HMGET', KEYS[7] .. timers[at], 'barrier', 'barrierAt')
  with_barriers[#with_barriers + 1] = timers[at]
  with_barriers[#with_barriers + 1] = timers[at + 1]
  with_barriers[#with_barriers + 1] = barrier[1] or ''
  with_barriers[#with_barriers + 1] = barrier[2] or ''
end
local debounced, in_flight, pauses = due(KEYS[2], limit), due(KEYS[3], limit), due(KEYS[5], limit)

-- The first of the pauses that cover a key, as start.lua has it.
local function paused_by(key)
  local scopes = { 'controller', 'breaker', 'recovery', 'object/' .. key }
  local slash = string.find(key, '/', 1, true)
  if slash then scopes[5] = 'namespace/' .. string.sub(key, 1, slash - 1) end
  for at, found in ipairs(redis.call('HMGET', KEYS[8], unpack(scopes))) do
    if found then return scopes[at] end
  end
  return nil
end

local backlog, left = {}, 0
if redis.call('EXISTS', KEYS[4]) == 1 then
  -- At least one a look: low keys wait behind live ones, and never for ever.
  local take = math.max(math.min(room, 1000) - redis.call('LLEN', KEYS[6]), 1)
  if redis.call('EXISTS', KEYS[8]) == 0 then
    backlog = due(KEYS[4], take)
    if #backlog == 2 * take then left = 1 end
  else
    local looked = due(KEYS[4], take + 1000)
    for at = 1, #looked, 2 do
      local scope = paused_by(looked[at])
      if scope then
        redis.call('ZADD', KEYS[9] .. scope, 'NX', looked[at + 1], looked[at])
        redis.call('ZREM', KEYS[4], looked[at])
      elseif #backlog < 2 * take then
        backlog[#backlog + 1] = looked[at]
        backlog[#backlog + 1] = looked[at + 1]
      end
    end
    if #looked == 2 * (take + 1000) or #backlog == 2 * take then left = 1 end
  end
end
return { with_barriers, debounced, in_flight, backlog, pauses, next_at, left }

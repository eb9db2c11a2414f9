-- What the poller has to look at: due timers, debounced keys and holds, runs past their deadline, and low-priority keys
-- when there is room.
--
-- KEYS[1] timers ZSET
-- KEYS[2] debounced ZSET
-- KEYS[3] flights ZSET
-- KEYS[4] backlog ZSET
-- KEYS[5] hold ends ZSET
-- KEYS[6] BullMQ's list of waiting jobs
-- KEYS[7] what a key is appended to, to name its record HASH
-- ARGV[1] now
-- ARGV[2] most timers, debounced keys and flights to return, each
-- ARGV[3] how many jobs may wait before low-priority keys stay in the backlog
--
-- Answer: {timers, debounced, flights, backlog, holds, when the next of all these is due or '', whether low-priority keys
-- were left for want of room as 1 or 0}; timers as key, score, barrier or '', barrierAt or '' for each, the others as key,
-- score.

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
  local barrier = redis.call('HMGET', KEYS[7] .. timers[at], 'barrier', 'barrierAt')
  with_barriers[#with_barriers + 1] = timers[at]
  with_barriers[#with_barriers + 1] = timers[at + 1]
  with_barriers[#with_barriers + 1] = barrier[1] or ''
  with_barriers[#with_barriers + 1] = barrier[2] or ''
end
local debounced, flights, holds = due(KEYS[2], limit), due(KEYS[3], limit), due(KEYS[5], limit)

local backlog, left = {}, 0
if redis.call('EXISTS', KEYS[4]) == 1 then
  -- At least one a look: low keys wait behind live ones, and never for ever.
  local take = math.max(math.min(room, 1000) - redis.call('LLEN', KEYS[6]), 1)
  backlog = due(KEYS[4], take)
  if #backlog == 2 * take then left = 1 end
end
return { with_barriers, debounced, flights, backlog, holds, next_at, left }

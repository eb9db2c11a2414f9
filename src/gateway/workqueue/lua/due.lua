-- What the poller has to look at: due timers, runs past their deadline, and low-priority keys when there is room.
--
-- KEYS[1] timers ZSET
-- KEYS[2] flights ZSET
-- KEYS[3] backlog ZSET
-- KEYS[4] BullMQ's list of waiting jobs
-- KEYS[5] what a key is appended to, to name its record HASH
-- ARGV[1] now
-- ARGV[2] most timers and flights to return, each
-- ARGV[3] how many jobs may wait before low-priority keys stay in the backlog
--
-- Answer: {timers, flights, backlog}; timers as key, score, barrier or '', barrierAt or '' for each, the others as key, score.

local now, limit, room = ARGV[1], ARGV[2], tonumber(ARGV[3])

local timers = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
local due = {}
for at = 1, #timers, 2 do
  local barrier = redis.call('HMGET', KEYS[5] .. timers[at], 'barrier', 'barrierAt')
  due[#due + 1] = timers[at]
  due[#due + 1] = timers[at + 1]
  due[#due + 1] = barrier[1] or ''
  due[#due + 1] = barrier[2] or ''
end

local flights = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)

local backlog = {}
if redis.call('EXISTS', KEYS[3]) == 1 then
  -- At least one a tick: low keys wait behind live ones, and never for ever.
  local take = math.max(room - redis.call('LLEN', KEYS[4]), 1)
  backlog = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'WITHSCORES', 'LIMIT', 0, take)
end
return { due, flights, backlog }

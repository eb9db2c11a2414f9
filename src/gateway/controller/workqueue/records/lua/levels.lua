-- Reads how many keys wait and run, and when the first of them was or will be due, at one moment: a key that moves from
-- one set to another one is not missed.
--
-- KEYS[1] queued ZSET
-- KEYS[2] inFlight ZSET
-- KEYS[3] timers ZSET
-- KEYS[4] failing ZSET
-- KEYS[5] backlog ZSET
-- KEYS[6] dead ZSET
-- KEYS[7] debounced ZSET
-- KEYS[8] pauses HASH
-- KEYS[9] runs counter
-- ARGV[1] until when a timed key counts as demand
--
-- Answer: {the sizes of the first six, the size of the backlog, how many runs have ever been started, demand, the lowest
-- score of queued, timers, debounced and backlog, or ''}; all but the first without the backlog while all keys are
-- paused, because its keys stay there.

local sizes = {}
for at = 1, 6 do sizes[at] = redis.call('ZCARD', KEYS[at]) end
local ready, running, low = sizes[1], sizes[2], sizes[5]
local sets = { KEYS[1], KEYS[3], KEYS[7] }
if low > 0 then
  local paused = redis.call('HMGET', KEYS[8], 'controller', 'recovery')
  if paused[1] or paused[2] then low = 0 else sets[4] = KEYS[5] end
end
local timed, first_due = 0, ''
for at, set in ipairs(sets) do
  local score = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]
  if score then
    if first_due == '' or tonumber(score) < tonumber(first_due) then first_due = score end
    if at == 2 or at == 3 then timed = timed + redis.call('ZCOUNT', set, '-inf', ARGV[1]) end
  end
end
local started = tonumber(redis.call('GET', KEYS[9]) or 0)
-- A key whose time has come is ready and keeps its time until it starts.
return { sizes, low, started, low + running + math.max(ready, timed), first_due }

-- Reads how many keys wait and run, and when the first of them was or will be due, at one moment: a key that moves from
-- one set to another one is not missed.
--
-- ARGV[1] until when a timed key counts as demand
--
-- Answer: {the sizes of queued, in-flight, timers, failing, backlog and dead, the size of the backlog, how many runs have
-- ever been started, demand, the lowest score of queued, timers, debounced and backlog, or ''}; all but the first without
-- the backlog while all keys are paused, because its keys stay there.

local prefix = KEYS[1]
local queued, timers, backlog = prefix .. ':queued', prefix .. ':timers', prefix .. ':backlog'
local sizes = {}
for at, set in ipairs({ queued, prefix .. ':in-flight', timers, prefix .. ':failing', backlog, prefix .. ':dead' }) do
  sizes[at] = redis.call('ZCARD', set)
end
local ready, running, low = sizes[1], sizes[2], sizes[5]
local sets = { queued, timers, prefix .. ':debounced' }
if low > 0 then
  local paused = redis.call('HMGET', prefix .. ':pauses', 'controller', 'recovery')
  if paused[1] or paused[2] then low = 0 else sets[4] = backlog end
end
local timed, first_due = 0, ''
for at, set in ipairs(sets) do
  local score = redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2]
  if score then
    if first_due == '' or tonumber(score) < tonumber(first_due) then first_due = score end
    if at == 2 or at == 3 then timed = timed + redis.call('ZCOUNT', set, '-inf', ARGV[1]) end
  end
end
local started = tonumber(redis.call('GET', prefix .. ':runs') or 0)
-- A key whose time has come is ready and keeps its time until it starts.
return { sizes, low, started, low + running + math.max(ready, timed), first_due }

-- Reads how many keys wait and run, when the first of them was or will be due, since when a key has been failing, and
-- which pauses there are, at one moment: a key that moves from one set to another one is not missed. Costs the same
-- however many objects are paused.
--
-- ARGV[1] until when a timed key counts as demand
-- ARGV[2] how many pauses to list
-- ARGV[3] the keys of how many paused namespaces to count
--
-- Answer: {the sizes of queued, in-flight, timers, failing, backlog, the sets of keys that wait for the end of a debounce
-- or a pause, and dead; the size of the backlog, how many runs have ever been started, demand, the lowest score of queued,
-- timers, debounced and backlog, or '', the lowest score of failing or '', how many pauses there are, how many of them a
-- person or recovery has set, when the first of these ends or '', the pauses of all keys and then of namespaces and keys,
-- as scope, since when, until when}.
-- The backlog's size, demand and lowest score are without the backlog while all keys are paused, because its keys stay
-- there.

local prefix = KEYS[1]
local queued, timers, backlog = prefix .. ':queued', prefix .. ':timers', prefix .. ':backlog'
local debounced, pauses, ends = prefix .. ':debounced', prefix .. ':pauses', prefix .. ':pause-ends'
local function size(set) return redis.call('ZCARD', prefix .. ':' .. set) end

local total, set_by_hand, first_end, listed, waiting = redis.call('HLEN', pauses), 0, '', {}, size('debounced')
local paused = { false, false }
if total > 0 or redis.call('EXISTS', ends) == 1 then
  paused = redis.call('HMGET', pauses, 'controller', 'recovery')
  -- 0: the pause has ended, and its last keys are being moved.
  set_by_hand = redis.call('ZCOUNT', ends, '(0', '+inf')
  first_end = redis.call('ZRANGEBYSCORE', ends, '-inf', '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or ''
  for at, scope in ipairs({ 'controller', 'recovery' }) do
    waiting = waiting + size('paused:' .. scope)
    if paused[at] then
      for _, each in ipairs({ scope, paused[at], redis.call('ZSCORE', ends, scope) or '' }) do listed[#listed + 1] = each end
    end
  end
  waiting = waiting + size('paused:key') + size('paused:object')
  -- Pauses without an end have equal scores, so they come in the order of their names: the namespaces first.
  local found = redis.call('ZREVRANGE', ends, 0, ARGV[3] - 1, 'WITHSCORES')
  for at = 1, #found, 2 do
    local scope = found[at]
    if string.sub(scope, 1, 10) == 'namespace/' then waiting = waiting + size('paused:' .. scope) end
    if #listed < 3 * ARGV[2] and scope ~= 'controller' and scope ~= 'recovery' then
      local since = redis.call('HGET', pauses, scope)
      if since then
        for _, each in ipairs({ scope, since, found[at + 1] }) do listed[#listed + 1] = each end
      end
    end
  end
end

local ready, running, low = redis.call('ZCARD', queued), size('in-flight'), redis.call('ZCARD', backlog)
local sizes = { ready, running, redis.call('ZCARD', timers), size('failing'), low, waiting, size('dead') }
local sets = { queued, timers, debounced }
if low > 0 then
  if paused[1] or paused[2] then low = 0 else sets[4] = backlog end
end
local function lowest(set) return redis.call('ZRANGE', set, 0, 0, 'WITHSCORES')[2] end
local timed, first_due = 0, ''
for at, set in ipairs(sets) do
  local score = lowest(set)
  if score then
    if first_due == '' or tonumber(score) < tonumber(first_due) then first_due = score end
    if at == 2 or at == 3 then timed = timed + redis.call('ZCOUNT', set, '-inf', ARGV[1]) end
  end
end
local started = tonumber(redis.call('GET', prefix .. ':runs') or 0)
-- A key whose time has come is ready and keeps its time until it starts.
local demand = low + running + math.max(ready, timed)
local failing_since = lowest(prefix .. ':failing') or ''
return { sizes, low, started, demand, first_due, failing_since, total, set_by_hand, first_end, listed }

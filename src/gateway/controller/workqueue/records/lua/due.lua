-- Reads the entries that the poller must act on: due timers, debounced keys and pauses, and runs past their deadline.
--
-- ARGV[1] now
-- ARGV[2] maximum number of entries of each set
--
-- Answer: {timers, debounced, inFlight, pauses, when the next of all these is due or '', how many keys the backlog has, how
-- many keys are ready, fail, and are dead letters, how many pauses there are}; timers as key, score, barrier or '',
-- barrierAt or '' for each, the others as key, score.

local prefix, records = KEYS[1], KEYS[1] .. ':key:'
local now, limit = ARGV[1], tonumber(ARGV[2])
local next_at = ''

-- Returns the members of a set that are due, and remembers the time of the next member.
local function due(set)
  local found = redis.call('ZRANGEBYSCORE', set, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
  -- A pause without an end has the score inf.
  local coming = redis.call('ZRANGEBYSCORE', set, '(' .. now, '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if coming and (next_at == '' or tonumber(coming) < tonumber(next_at)) then next_at = coming end
  return found
end

local timers = due(prefix .. ':timers')
-- One answer has some 256 KiB: long barriers are read with the next ticks.
local with_barriers, bytes = {}, 0
for at = 1, #timers, 2 do
  -- The start of the key reports a record that cannot be read.
  local barrier = redis.pcall('HMGET', records .. timers[at], 'barrier', 'barrierAt')
  with_barriers[#with_barriers + 1] = timers[at]
  with_barriers[#with_barriers + 1] = timers[at + 1]
  with_barriers[#with_barriers + 1] = barrier[1] or ''
  with_barriers[#with_barriers + 1] = barrier[2] or ''
  bytes = bytes + #(barrier[1] or '')
  if bytes > 262144 and at + 2 <= #timers then
    next_at = now
    break
  end
end
local debounced, in_flight, pauses = due(prefix .. ':debounced'), due(prefix .. ':in-flight'), due(prefix .. ':pause-ends')
local low, queued = redis.call('ZCARD', prefix .. ':backlog'), redis.call('ZCARD', prefix .. ':queued')
local failing, dead = redis.call('ZCARD', prefix .. ':failing'), redis.call('ZCARD', prefix .. ':dead')
local paused = redis.call('HLEN', prefix .. ':pauses')
return { with_barriers, debounced, in_flight, pauses, next_at, low, queued, failing, dead, paused }

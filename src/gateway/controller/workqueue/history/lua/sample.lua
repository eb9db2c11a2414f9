-- Adds what this gateway has counted to the samples of its intervals, and what waits and runs now to the last of them.
--
-- KEYS[1] samples HASH: number of an interval modulo ARGV[1] -> JSON, see samples.ts
-- KEYS[2] queued ZSET
-- KEYS[3] backlog ZSET
-- KEYS[4] inFlight ZSET
-- ARGV[1] how many intervals are kept
-- then    two each: number of the interval, counts as JSON; in the order of the intervals
--
-- Answer: how many keys wait or run.

local function added(one, other)
  for name, value in pairs(other) do
    if type(value) == 'table' then
      one[name] = added(type(one[name]) == 'table' and one[name] or {}, value)
    else
      one[name] = (tonumber(one[name]) or 0) + value
    end
  end
  return one
end

local waiting = redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3])
local running = redis.call('ZCARD', KEYS[4])
for at = 2, #ARGV, 2 do
  local slot = tonumber(ARGV[at]) % tonumber(ARGV[1])
  local is_read, sample = pcall(cjson.decode, redis.call('HGET', KEYS[1], slot) or '{}')
  if not is_read or type(sample) ~= 'table' or sample.interval ~= tonumber(ARGV[at]) then
    sample = { interval = tonumber(ARGV[at]) }
  end
  sample = added(sample, cjson.decode(ARGV[at + 1]))
  if at == #ARGV - 1 then sample.waiting, sample.running = waiting, running end
  redis.call('HSET', KEYS[1], slot, cjson.encode(sample))
end
return waiting + running

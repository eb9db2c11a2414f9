-- Records that the given keys were added, when and why, and answers which of them became ready to run.
--
-- KEYS[1] what a key is appended to, to name its record HASH (same hash tag)
-- KEYS[2] debounced ZSET
-- KEYS[3] pauses     HASH
-- KEYS[4] what a scope is appended to, to name the ZSET of keys that wait for the end of its pause
-- KEYS[5] queued    ZSET
-- ARGV[1] now
-- ARGV[2] debounce: window in ms, 0 for none
-- ARGV[3] debounce: longest wait in ms
-- then    four each: key, reasons (JSON objects joined by newlines, or ''), paused ('1', '0', or '' for unknown), since
--         when there is a reason to run it
--
-- Answer: the places of the keys that became ready, from 0. A key that waits or runs already is not in the answer: its
-- start or its finish reads the record. Reasons beyond 2 KiB are dropped; the time of the first add stays.

local now, window, longest = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local pausing = redis.call('EXISTS', KEYS[3]) == 1
local ready = {}

for at = 4, #ARGV, 4 do
  local key, reasons, paused, since = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local record = KEYS[1] .. key
  local known = redis.call('HMGET', record, 'queuedAt', 'reasons', 'run')
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
  if window > 0 then
    redis.call('ZADD', KEYS[2], math.min(now + window, first + longest), key)
  elseif not known[3] and redis.call('ZADD', KEYS[5], 'NX', now, key) == 1 then
    -- A key that runs becomes ready at the end of its run (finish.lua).
    ready[#ready + 1] = (at - 4) / 4
  end
  if paused == '1' then
    redis.call('HSETNX', KEYS[3], 'object/' .. key, ARGV[1])
    pausing = true
  elseif paused == '0' and pausing then
    redis.call('HDEL', KEYS[3], 'object/' .. key)
    redis.call('UNLINK', KEYS[4] .. 'object/' .. key)
  end
end
return ready

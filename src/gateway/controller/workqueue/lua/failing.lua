-- Lists the keys that have failed and wait for their next attempt, by its time.
--
-- KEYS[1] timers ZSET
-- ARGV[1] prefix of a key's record (same hash tag as KEYS)
-- ARGV[2] how many to leave out
-- ARGV[3] how many to list
-- ARGV[4] how many keys with timers to look at
--
-- Answer: {how many there are among those looked at; then key and time in turn}.

local offset, limit, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local answer = { 0 }
local timers = redis.call('ZRANGE', KEYS[1], 0, most - 1, 'WITHSCORES')
for at = 1, #timers, 2 do
  if tonumber(redis.call('HGET', ARGV[1] .. timers[at], 'failures') or 0) > 0 then
    answer[1] = answer[1] + 1
    if answer[1] > offset and answer[1] <= offset + limit then
      answer[#answer + 1] = timers[at]
      answer[#answer + 1] = timers[at + 1]
    end
  end
end
return answer

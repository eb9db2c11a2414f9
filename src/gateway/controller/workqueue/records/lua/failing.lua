-- Lists the keys that have failed and wait for their next attempt, by its time.
--
-- KEYS[1] timers ZSET
-- ARGV[1] prefix of a key's record (same hash tag as KEYS)
-- ARGV[2] how many to leave out
-- ARGV[3] how many to list
-- ARGV[4] the keys with timers to look at: from this one in the order of their times
-- ARGV[5] how many
--
-- Answer: {how many were looked at; how many of them have failed; then key and time in turn}.

local offset, limit, from, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local timers = redis.call('ZRANGE', KEYS[1], from, from + most - 1, 'WITHSCORES')
local answer = { #timers / 2, 0 }
for at = 1, #timers, 2 do
  if tonumber(redis.call('HGET', ARGV[1] .. timers[at], 'failures') or 0) > 0 then
    answer[2] = answer[2] + 1
    if answer[2] > offset and answer[2] <= offset + limit then
      answer[#answer + 1] = timers[at]
      answer[#answer + 1] = timers[at + 1]
    end
  end
end
return answer

-- Lists the keys of a set that have failed and are tried again, in the order of the set.
--
-- KEYS[1]     ZSET of keys
-- KEYS[2...]  sets whose keys are left out, since they have been listed
-- ARGV[1] prefix of a key's record (same hash tag as KEYS)
-- ARGV[2] how many to leave out
-- ARGV[3] how many to list
-- ARGV[4] the keys to look at: from this one in the order of the set
-- ARGV[5] how many
--
-- Answer: {how many were looked at; how many of them have failed; then key and score in turn}.

local offset, limit, from, most = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local function isListed(key)
  for at = 2, #KEYS do
    if redis.call('ZSCORE', KEYS[at], key) then
      return true
    end
  end
  return false
end

local found = redis.call('ZRANGE', KEYS[1], from, from + most - 1, 'WITHSCORES')
local answer = { #found / 2, 0 }
for at = 1, #found, 2 do
  if tonumber(redis.call('HGET', ARGV[1] .. found[at], 'failures') or 0) > 0 and not isListed(found[at]) then
    answer[2] = answer[2] + 1
    if answer[2] > offset and answer[2] <= offset + limit then
      answer[#answer + 1] = found[at]
      answer[#answer + 1] = found[at + 1]
    end
  end
end
return answer

-- Weighs objects of a view by namespace, a page at a time.
--
-- KEYS[1] order   ZSET  keys
-- KEYS[2] objects HASH
-- KEYS[3] entries HASH  key -> version \n uid \n T? \n index entry ...
-- ARGV[1] where the page begins, as ZRANGEBYLEX takes it
--
-- Answer: {last key of the page, or '' when it is the last page; then namespace, bytes and number of objects in turn}. Objects without a
-- namespace have the empty one.

local MOST_KEYS, MOST_ENTRY_BYTES = 200, 262144
-- About, as measured: a key in three of the view's keys; an entry of its own SET, and one in a SET with many others,
-- both without the key, which is the member.
local EACH_KEY, OWN_SET, SHARED_SET = 200, 250, 80

local keys = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], '+', 'LIMIT', 0, MOST_KEYS)
local sums, counts, last, left = {}, {}, '', MOST_ENTRY_BYTES
for at, key in ipairs(keys) do
  local entry = redis.call('HGET', KEYS[3], key) or ''
  local _, lines = string.gsub(entry, '\n', '')
  local _, declared = string.gsub(entry, '\n[^\n]*=', '')
  local bytes = redis.call('HSTRLEN', KEYS[2], key) + #entry + EACH_KEY + 3 * #key
  local namespace = string.match(key, '^([^/]*)/') or ''
  counts[namespace] = (counts[namespace] or 0) + 1
  bytes = bytes + OWN_SET * declared + SHARED_SET * (lines - declared) + #key * lines
  sums[namespace] = (sums[namespace] or 0) + bytes
  left = left - #entry
  if left <= 0 or at == MOST_KEYS then
    last = key
    break
  end
end
local answer = { last }
for namespace, bytes in pairs(sums) do
  answer[#answer + 1] = namespace
  answer[#answer + 1] = bytes
  answer[#answer + 1] = counts[namespace]
end
return answer

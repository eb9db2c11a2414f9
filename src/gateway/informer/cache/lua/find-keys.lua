-- Finds the keys with all of some index entries: all of these keys if one of the SETs is small, otherwise a page.
--
-- KEYS[1] order ZSET  all keys of the view
-- KEYS[2...]    SETs  of the index entries; none: every key is found
-- ARGV[1] where the page begins, and ARGV[2] where the last page ends, as ZRANGEBYLEX takes them
-- ARGV[3] how many keys a small SET has at most
-- ARGV[4] how many keys of the order a page looks at
--
-- Answer: {last key of the order that the page has looked at, '' when no page follows; found keys}.

local sets, is_small = {}, false
for at = 2, #KEYS do
  sets[#sets + 1] = KEYS[at]
  is_small = is_small or redis.call('SCARD', KEYS[at]) <= tonumber(ARGV[3])
end
if is_small then return { '', redis.call('SINTER', unpack(sets)) } end

local page = tonumber(ARGV[4])
local found = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, page)
local last = #found < page and '' or found[page]
for _, set in ipairs(sets) do
  if #found == 0 then break end
  local carried, carrying = redis.call('SMISMEMBER', set, unpack(found)), {}
  for at, key in ipairs(found) do
    if carried[at] == 1 then carrying[#carrying + 1] = key end
  end
  found = carrying
end
return { last, found }

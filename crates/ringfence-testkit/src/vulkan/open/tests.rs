use super::*;

fn family(queue_flags: vk::QueueFlags, queue_count: u32) -> vk::QueueFamilyProperties {
    vk::QueueFamilyProperties { queue_flags, queue_count, ..Default::default() }
}

#[test]
fn queues_come_from_one_family_that_has_enough_of_them() {
    let (graphics, compute) = (vk::QueueFlags::GRAPHICS | vk::QueueFlags::COMPUTE, vk::QueueFlags::COMPUTE);
    let families = [family(vk::QueueFlags::TRANSFER, 8), family(compute, 4), family(graphics, 1)];
    assert_eq!(choose_queues(&families, 1), Some((2, 1)));
    assert_eq!(choose_queues(&families, 2), Some((1, 2)));
    assert_eq!(choose_queues(&families, 9), Some((1, 4)));
    assert_eq!(choose_queues(&families[..1], 1), None);
}
